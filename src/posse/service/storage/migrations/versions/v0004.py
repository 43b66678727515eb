"""Players may have attributes."""

from alembic import op
from sqlalchemy import Column, Text

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add a column to the players; those of before have nothing in it, and their digests stay as they are."""
    op.add_column("players", Column("attributes", Text))
