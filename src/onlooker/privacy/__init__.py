"""Everything that decides an epsilon; an auditor reads this room and stops."""
