"""Connected services (RC, UC, XRC): requester, responder, and what both share."""
