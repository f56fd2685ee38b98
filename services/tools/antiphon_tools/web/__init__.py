"""Web search by a provider that the operator chooses. The provider modules do no I/O."""
