"""The calendar: what is to come and what was, in days, in one order, and as feeds."""
