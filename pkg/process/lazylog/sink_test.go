package lazylog_test

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/weft-network/weft/pkg/process/lazylog"
)

// The text of a lazy logger is that of its base: with the names, the values, the caller and the stack.
func TestTheTextIsTheSame(t *testing.T) {
	write := func(wrap func(logr.Logger) logr.Logger) string {
		var text bytes.Buffer
		log := wrap(zap.New(zap.WriteTo(&text), zap.RawZapOpts(uberzap.AddCaller()), func(o *zap.Options) {
			o.EncoderConfigOptions = append(o.EncoderConfigOptions, func(c *zapcore.EncoderConfig) { c.TimeKey = "" })
		}))
		log = log.WithName("engine").WithValues("pod", "demo/web", "n", 1).WithName("writer")
		log.Info("connected", "again", true)
		log.V(1).Info("not shown")
		log.WithValues("more", "x").Error(errors.New("refused"), "cannot write")
		log.WithCallDepth(1).Info("of the caller")
		return regexp.MustCompile(`:\d+`).ReplaceAllString(text.String(), "")
	}
	plain := write(func(l logr.Logger) logr.Logger { return l })
	if lazy := write(lazylog.New); lazy != plain || !strings.Contains(plain, "sink_test.go") {
		t.Errorf("lazy:\n%s\nwithout:\n%s", lazy, plain)
	}
}

// A logger that logs nothing costs next to nothing.
func TestCost(t *testing.T) {
	log := lazylog.New(zap.New(zap.WriteTo(&bytes.Buffer{})))
	with := func() { log.WithValues("namespace", "demo", "name", "web").WithValues("reconcileID", "1") }
	if n := testing.AllocsPerRun(100, with); n > 8 { // 6 without the race detector
		t.Errorf("%v allocations, want at most 8", n)
	}
	if lazylog.New(logr.Discard()).Enabled() {
		t.Error("the logger that discards all is enabled")
	}
}
