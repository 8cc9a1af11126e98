"""What is done to messages in bulk, as Spark jobs that run on and can be restarted anywhere."""
