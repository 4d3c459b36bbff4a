// Package initd is PID 1 of a lab machine (the control plane or a node). It creates the machine's own root from the
// host's, starts the machine's daemons one after the other, restarts daemons that end, and receives orders on a
// socket.
//
// A machine is one set of net, mount, pid, uts and ipc namespaces. Killing PID 1 kills everything that runs in it
// and drops every mount, so only its cgroups and its network namespace remain to be removed.
package initd
