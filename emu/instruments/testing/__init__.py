"""Objects behind the pytest plugin's fixtures, and its observation of guests."""
