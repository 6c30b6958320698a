"""What every part uses: errors, settings, checks of arguments, JSON text, and small shared values."""
