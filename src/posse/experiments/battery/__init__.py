"""The battery: every policy on families of problems in which sharing helps, does nothing, or harms."""
