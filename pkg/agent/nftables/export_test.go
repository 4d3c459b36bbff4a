package nftables

// Reads returns how often the chains of hook forward were read.
func (f *Firewall) Reads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

// Reads returns how often the ruleset was read.
func (t *Table) Reads() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reads
}
