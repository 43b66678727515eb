"""How players differ: one hierarchical model, behind diagnosis, planning and the dashboard."""
