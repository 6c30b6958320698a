"""Pure rules of actions: outcomes of attempts and their settlement."""
