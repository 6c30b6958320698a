"""Build the project with `vercel build` and serve it as Vercel's runtime does: `python -m proofs.vercel`."""
