"""Executors: workers that run the actions of some types, in processes or on machines of their own."""
