// Package logging makes the loggers of Weft's programs.
package logging

import (
	"fmt"
	"strings"

	"go.uber.org/zap/zapcore"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/weft-network/weft/pkg/process/lazylog"
	"github.com/weft-network/weft/pkg/process/options"
)

// Start makes the logger of this process, once. Its error names the flag with a wrong word.
func Start(o options.Log) error {
	opts, err := parse(o)
	if err != nil {
		return err
	}
	ctrl.SetLogger(lazylog.New(zap.New(opts...)))
	return nil
}

// StartAnyway makes the logger of a program without the flags. A wrong value in the environment stops none.
func StartAnyway() {
	if Start(options.LogOfEnvironment()) != nil {
		_ = Start(options.Log{}) // the defaults are right
	}
}

// levels are the severities by word.
var levels = map[string]zapcore.Level{"": zapcore.InfoLevel, "error": zapcore.ErrorLevel, "warning": zapcore.ErrorLevel,
	"info": zapcore.InfoLevel, "debug": zapcore.DebugLevel}

func parse(o options.Log) ([]zap.Opts, error) {
	level, known := levels[strings.ToLower(o.Level)]
	if !known {
		return nil, fmt.Errorf("--log-level: %q is none of error, warning, info and debug", o.Level)
	}
	opts := []zap.Opts{zap.Level(level)} // the default is JSON
	switch strings.ToLower(o.Format) {
	case "", "json":
	case "text":
		opts = append(opts, zap.ConsoleEncoder(func(c *zapcore.EncoderConfig) { c.EncodeTime = zapcore.RFC3339TimeEncoder }))
	default:
		return nil, fmt.Errorf("--log-format: %q is neither json nor text", o.Format)
	}
	return opts, nil
}
