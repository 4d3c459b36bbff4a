// Package style tests how the repository is written: doc comments begin with the name of what they document, lines of Go stay under 140
// columns, and comments and pages avoid a list of phrases that read like a translation.
//
// The tree has old long lines and old phrases, so the last two tests are ratchets. Their files in testdata list how many there are in each
// file or folder. A place that has more than its count, or is not listed, fails. A place that has fewer passes, and
//
//	go test ./test/style -update
//
// lowers the counts. It also lists what was moved or renamed, and refuses to raise the sum of all counts. So the counts only shrink.
//
// To write without a banned phrase, name the thing and say what the program does:
//
//	is told, asks, hears        reads, enqueues, notifies, records an event, reports, logs, watches
//	looks at, wants to, knows   reads, checks, needs, has
//	one that, those of          the noun itself
//	is none, nobody is          no, not, without
//	shall, anew, of before      must, again, previous or stale
//	be it                       even if, whether
package style
