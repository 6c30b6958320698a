"""Documentation of the project and the script that draws its diagrams."""
