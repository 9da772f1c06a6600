"""Golden releases: what every private estimator charges, adds up, releases and learns."""
