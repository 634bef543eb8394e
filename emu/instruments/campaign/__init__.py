"""Campaigns: carries out a matrix of guest runs, locally or on a cluster, and reports them."""
