"""Messages that wait for their time: soon due in memory, the others in files by day and by minute."""
