"""`doctor` and `/readyz`: collect the facts about an installation, and evaluate them."""
