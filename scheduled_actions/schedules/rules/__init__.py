"""Pure rules of schedules: validation of arguments, and the policies that select occurrences."""
