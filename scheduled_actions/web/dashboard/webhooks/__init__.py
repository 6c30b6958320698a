"""The pages about endpoints and deliveries."""
