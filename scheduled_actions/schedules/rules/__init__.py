"""Pure rules of schedules: arguments, and the policies that choose occurrences."""
