"""`executors`: workers that run some action types on other machines."""
