package options

import (
	"flag"
	"os"
)

// Environment variables with the defaults of a Log's flags. Package render sets them from ClusterNetwork's spec.components.
const (
	LogLevelVariable  = "WEFT_LOG_LEVEL"
	LogFormatVariable = "WEFT_LOG_FORMAT"
)

// Log configures a program's log, by the words of its flags. The empty Log is info and json.
type Log struct{ Level, Format string }

// LogOfEnvironment returns the Log of a program without the flags.
func LogOfEnvironment() Log {
	return Log{Level: os.Getenv(LogLevelVariable), Format: os.Getenv(LogFormatVariable)}
}

func (l *Log) flags(flags *flag.FlagSet) {
	*l = LogOfEnvironment()
	flags.StringVar(&l.Level, "log-level", l.Level,
		"lowest severity of the messages to write: error, warning (as error), info, debug (environment "+LogLevelVariable+"); empty: info")
	flags.StringVar(&l.Format, "log-format", l.Format, "format of the messages: json, text (environment "+LogFormatVariable+"); empty: json")
}
