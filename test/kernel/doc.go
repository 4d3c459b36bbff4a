// Package kernel runs a program on a Linux kernel of its own, which has the features that a node of Weft needs and the
// machine's kernel may lack: Open vSwitch's datapath, conntrack zones, Geneve, ESP, SCTP.
//
//	go run ./test/kernel/cmd/weft-kernel [-mem 3G] [-timeout 20m] [-out FOLDER] -- PROGRAM ARGS...
//
// The kernel is User-Mode Linux: a Linux kernel as an ordinary process, without virtualization. It needs no privileges. It
// has one processor, and its system calls take twenty times as long as the machine's.
//
//	machine                                        │ inside
//	──────────────────────────────────────────────────────────────────────────────────────
//	/                        (read-only) ──hostfs──┼─▶ lower layer of an overlay, which is /
//	memory                                         │   its upper layer, /run, /dev, /proc, /sys
//	-out FOLDER              (writable)  ──hostfs──┼─▶ FOLDER
//	stdout, stderr           ◀──pipes── /dev/tty1, │   PROGRAM, a child of test/kernel/guest as PID 1
//	                                    /dev/tty2
//
// PROGRAM is root, and sees the files, the working folder and the environment of its caller. Its changes stay in memory and
// end with the kernel, except below the folders of -out. Its network has only a loopback interface.
package kernel
