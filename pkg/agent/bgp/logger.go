package bgp

import (
	"context"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
)

// newServer returns a server without a configuration. Until ctx ends, its messages go to log, and why there is no session to note.
func newServer(ctx context.Context, log logr.Logger, note func(reason string)) *server.BgpServer {
	handler := &logHandler{running: ctx, log: log, note: note}
	return server.NewBgpServer(server.LoggerOption(slog.New(handler), nil))
}

// logHandler passes the server's messages to the agent's log, and why there is no session to note.
type logHandler struct {
	running context.Context
	log     logr.Logger
	note    func(reason string)
}

// Enabled implements slog.Handler. Why a connection fails is a debug message.
func (h *logHandler) Enabled(context.Context, slog.Level) bool { return h.running.Err() == nil }

// WithAttrs implements slog.Handler. The attributes of all messages name the peer, as log does.
func (h *logHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(string) slog.Handler { return h }

// Handle implements slog.Handler.
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	fields := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		fields[a.Key] = a.Value
		return true
	})
	if reason := reasonOf(r.Message, fields); reason != "" {
		h.note(reason)
	}
	var values []any
	for _, key := range []string{"Reason", "reason", "State", "Error", "Code", "Subcode"} {
		if value, ok := fields[key]; ok {
			values = append(values, strings.ToLower(key), value.String())
		}
	}
	level := 0
	if r.Level < slog.LevelWarn {
		level = 1
	}
	h.log.V(level).Info(r.Message, values...)
	return nil
}

// timeout is the end of the kernel's error of a connection that nobody answers.
const timeout = "i/o timeout"

func isTimeout(reason string) bool { return strings.HasSuffix(reason, timeout) }

// reasonOf returns why there is no session, if a message of the server says so.
func reasonOf(message string, fields map[string]slog.Value) string {
	switch message {
	case "failed to connect":
		return "cannot connect: " + fields["Error"].String()
	case "outgoing connection IO error":
		return refused
	case "received notification":
		return "the router ended the session: " + notification(fields)
	case "sent notification":
		code := notification(fields)
		switch {
		case fields["Code"].Int64() == packet.BGP_ERROR_FSM_ERROR: // what the router sent was a notification
			return refused
		case !strings.HasSuffix(code, ownReset): // BFD's, whose reason is known
			return "the node ended the session: " + code
		}
	case "Peer Down":
		if reason := fields["Reason"].String(); !strings.HasSuffix(reason, ownReset) {
			return "the session ended: " + reason
		}
	}
	return ""
}

// ownReset is the end of the server's reason for the end of a session that BFD has closed.
const ownReset = "subcode 4(administrative reset)"

// notification names the error code of a notification.
func notification(fields map[string]slog.Value) string {
	code, subcode := fields["Code"].Int64(), fields["Subcode"].Int64()
	return packet.NewNotificationErrorCode(uint8(code), uint8(subcode)).String()
}
