package bgp

import (
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/osrg/gobgp/v3/pkg/log"
	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
	"github.com/osrg/gobgp/v3/pkg/server"
)

// speaking is a BGP server with its log.
type speaking struct {
	*server.BgpServer
	logger *logger
}

// newServer starts a server without a configuration. It never ends.
func newServer() *speaking {
	s := &speaking{logger: &logger{log: logr.Discard(), note: func(string) {}, freed: make(chan struct{}, 1)}}
	s.BgpServer = server.NewBgpServer(server.LoggerOption(s.logger))
	go s.Serve()
	return s
}

// logger passes the server's messages to the agent's log, and why there is no session to note.
type logger struct {
	mu   sync.Mutex
	log  logr.Logger
	note func(reason string)
	// freed receives a value when the server has ended the goroutines of a deleted peer. Only a message says so.
	freed chan struct{}
}

// freedMessage is the server's message that the goroutines of a deleted peer have ended.
const freedMessage = "freed fsm.h"

// attach sets where messages go from now on.
func (l *logger) attach(to logr.Logger, note func(reason string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log, l.note = to, note
}

// timeout is the end of the kernel's error of a connection that nobody answers.
const timeout = "i/o timeout"

func isTimeout(reason string) bool { return strings.HasSuffix(reason, timeout) }

// reasonOf returns why there is no session, if a message of the server says so.
func reasonOf(message string, fields log.Fields) string {
	switch message {
	case "failed to connect":
		return fmt.Sprintf("cannot connect: %v", fields["Error"])
	case "received notification":
		return "the router ended the session: " + notification(fields)
	case "sent notification":
		if fields["Subcode"] != uint8(bgp.BGP_ERROR_SUB_ADMINISTRATIVE_RESET) { // BFD's, whose reason is known
			return fmt.Sprintf("the node ended the session: %v", fields["Data"])
		}
	case "Peer Down":
		if reason := fmt.Sprint(fields["Reason"]); !strings.HasSuffix(reason, ownReset) {
			return "the session ended: " + reason
		}
	}
	return ""
}

// ownReset is the end of the server's reason for the end of a session that BFD has closed.
const ownReset = "subcode 4(administrative reset)"

// notification names the error code of a notification that the router sent.
func notification(fields log.Fields) string {
	code, ok := fields["Code"].(uint8)
	subcode, ok2 := fields["Subcode"].(uint8)
	if !ok || !ok2 {
		return "notification without a code"
	}
	return bgp.NewNotificationErrorCode(code, subcode).String()
}

func (l *logger) pass(level int, message string, fields log.Fields) {
	l.mu.Lock()
	to, note := l.log, l.note
	l.mu.Unlock()
	if reason := reasonOf(message, fields); reason != "" {
		note(reason)
	}
	if message == freedMessage {
		select {
		case l.freed <- struct{}{}:
		default:
		}
	}
	var values []any
	for _, key := range []string{"Reason", "State", "Error", "Code", "Subcode"} {
		if value, ok := fields[key]; ok {
			values = append(values, strings.ToLower(key), fmt.Sprint(value))
		}
	}
	to.V(level).Info(message, values...)
}

// Panic implements log.Logger.
func (l *logger) Panic(message string, fields log.Fields) { l.pass(0, message, fields); panic(message) }

// Fatal implements log.Logger. The server calls it only for a configuration that cannot occur.
func (l *logger) Fatal(message string, fields log.Fields) { l.pass(0, message, fields) }

// Error implements log.Logger.
func (l *logger) Error(message string, fields log.Fields) { l.pass(0, message, fields) }

// Warn implements log.Logger.
func (l *logger) Warn(message string, fields log.Fields) { l.pass(0, message, fields) }

// Info implements log.Logger.
func (l *logger) Info(message string, fields log.Fields) { l.pass(1, message, fields) }

// Debug implements log.Logger.
func (l *logger) Debug(message string, fields log.Fields) { l.pass(1, message, fields) }

// SetLevel implements log.Logger.
func (l *logger) SetLevel(log.LogLevel) {}

// GetLevel implements log.Logger. Why a connection fails is a debug message.
func (l *logger) GetLevel() log.LogLevel { return log.DebugLevel }
