"""The first version. Databases of it are upgraded from here; a new one begins with the newest version."""

revision = "0001"
down_revision = None
