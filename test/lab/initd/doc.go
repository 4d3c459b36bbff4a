// Package initd is PID 1 of a lab machine (the control plane or a node): it makes the machine's own root from the
// host's, starts the machine's daemons one after the other, starts again those that die, and takes orders on a socket.
//
// A machine is one set of net, mount, pid, uts and ipc namespaces. Killing PID 1 kills all that runs in it and drops
// every mount, so there is nothing else to take down but its cgroups and its network namespace.
package initd
