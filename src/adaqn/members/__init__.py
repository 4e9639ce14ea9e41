"""What a member is, how members are chosen, and how they change."""
