"""Large-margin Gaussian classification (Pathak and Raj 2010): experiments and verdicts."""
