"""The Multi-Particle Environments (Lowe et al. 2017, arXiv:1706.02275) in the form that VMAS gave them."""
