"""The project built by `vercel build` and served as Vercel's runtime serves it: `python -m proofs.vercel`."""
