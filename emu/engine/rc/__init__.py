"""Connected services (RC, UC, XRC): requester, responder, and the steps that both ways share."""
