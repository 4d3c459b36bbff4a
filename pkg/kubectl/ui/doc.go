// Package ui serves the page of "kubectl weft ui" on the loopback interface. The page only reads, with the rights of
// the user who runs the command; nothing in the cluster listens for it.
//
//	API server ──list, watch──▶ feed ──rows──▶ hub ──server-sent events──▶ browser: web/*.js
//	                             │
//	                             └──objects──▶ reach: who may reach a pod
//
// The files of the browser are in web, as they are delivered: no build step makes them, and they use no library.
package ui
