package main

import "golang.org/x/sys/unix"

// isNetNS reports whether a network namespace is mounted at the path. If the namespace is gone, runtimes call DEL
// without a path. The file of the mount point remains if only the mount is gone.
func isNetNS(path string) bool {
	if path == "" {
		return false
	}
	var fs unix.Statfs_t
	err := unix.Statfs(path, &fs)
	if err == unix.ENOENT {
		return false
	}
	return err != nil || fs.Type == unix.NSFS_MAGIC
}
