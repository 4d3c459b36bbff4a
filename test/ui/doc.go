// Package ui opens the page of "kubectl weft ui" in a real Chromium: the program as users start it, before an API server
// that has 5,000 pods and answers lists, watches and traces.
//
//	Chromium ◀──DevTools── the tests ──change objects──▶ fake API server ◀──list, watch, exec── kubectl-weft ui
//	    └───────────────────────────────────HTTP on the loopback interface──────────────────────────────┘
//
// Without a Chromium, the tests are skipped, unless WEFT_UI_BROWSER is "required", as in make check-ui.
package ui
