"""Connected services (RC, UC, XRC): requester and responder; ``responder`` lists its steps."""
