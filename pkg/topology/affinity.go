package topology

import (
	"crypto/sha256"
	"encoding/binary"
)

// OVN could remember which backend served a client (affinity_timeout), but OVN 25.03 drops the packet that it learns
// from and all packets of that connection before a reply. The first connection of each client would hang until it
// gives up. Therefore the backend follows from the client's address: Open vSwitch selects the list entry with the
// highest hash of place and address.

// places is the length of a backend list with affinity. It is a prime, so that each backend's steps lead to all
// places.
const places = 127

// mostPlaced is the largest number of backends for which the places are distributed almost evenly.
const mostPlaced = places / 2

// placed repeats backends until all places are taken. Each backend keeps its places, and almost all clients keep
// their backend, when other backends are added or removed (the table of Maglev: Eisenbud and others, NSDI 2016). A
// list longer than mostPlaced is returned unchanged; any change of it moves clients.
func placed(backends []string) []string {
	if len(backends) < 2 || len(backends) > mostPlaced {
		return backends
	}
	table, wishes := make([]string, places), make([]wish, len(backends))
	for i, backend := range backends {
		wishes[i] = wishOf(backend)
	}
	for taken := 0; ; {
		for i, backend := range backends {
			for table[wishes[i].place] != "" {
				wishes[i].next()
			}
			table[wishes[i].place] = backend
			if taken++; taken == places {
				return table
			}
		}
	}
}

// wish is the place that a backend prefers next.
type wish struct{ place, step int }

func wishOf(backend string) wish {
	sum := sha256.Sum256([]byte(backend))
	return wish{place: int(binary.BigEndian.Uint64(sum[:]) % places), step: 1 + int(binary.BigEndian.Uint64(sum[8:])%(places-1))}
}

func (w *wish) next() { w.place = (w.place + w.step) % places }
