// Package version says which build this is.
package version

import "runtime/debug"

// version is set by the linker: -X github.com/weft-network/weft/pkg/process/version.version=v0.1.0.
var version = ""

// String returns the version given at build time, or the module's.
func String() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
