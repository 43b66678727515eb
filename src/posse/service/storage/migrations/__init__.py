"""The database's schema, version by version; `posse db upgrade` goes to the newest."""
