"""Who is where: the brokers that are alive, and which of them have a topic. Nothing here knows of sockets."""
