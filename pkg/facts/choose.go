package facts

import "slices"

// Choose returns the backends that a choice leaves on a node, in their order. They are of one family.
func Choose(backends []Backend, from Choice, node ServiceNode) []Backend {
	switch from {
	case FromAll:
		return usable(backends)
	case FromNear:
		return near(backends, node)
	}
	return usable(slices.DeleteFunc(slices.Clone(backends), func(b Backend) bool { return b.Node == "" || b.Node != node.Name }))
}

// usable returns the backends that take connections. It includes terminating backends only if there are no others,
// because that is better than refusing a client (KEP-1669).
func usable(backends []Backend) []Backend {
	if ready := slices.DeleteFunc(slices.Clone(backends), func(b Backend) bool { return b.Ending }); len(ready) > 0 {
		return ready
	}
	return backends
}

// near returns the backends for a node: those with a hint for it, else those with a hint for its zone, else all.
// Hints count only if every ready backend has them, because a backend without hints may be the only usable one (KEP-2433).
func near(backends []Backend, node ServiceNode) []Backend {
	backends = usable(backends)
	if len(backends) > 0 && backends[0].Ending {
		return backends
	}
	for _, meant := range []struct {
		of   func(Backend) []string
		name string
	}{{func(b Backend) []string { return b.ForNodes }, node.Name}, {func(b Backend) []string { return b.ForZones }, node.Zone}} {
		hinted := !slices.ContainsFunc(backends, func(b Backend) bool { return len(meant.of(b)) == 0 })
		if !hinted || meant.name == "" {
			continue
		}
		mine := slices.DeleteFunc(slices.Clone(backends), func(b Backend) bool { return !slices.Contains(meant.of(b), meant.name) })
		if len(mine) > 0 {
			return mine
		}
	}
	return backends
}
