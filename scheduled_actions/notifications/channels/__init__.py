"""What reaches people: mail, the other channels, and the words of notices."""
