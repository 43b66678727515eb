"""What people read: tables, figures, an HTML report, and two runs side by side."""
