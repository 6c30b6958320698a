"""`doctor` and `/readyz`: the facts about an installation, and what they mean."""
