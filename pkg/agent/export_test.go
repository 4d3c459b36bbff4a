package agent

// SetPassed sets what receives each point that a request passes, such as "ADD link" or "DEL record", before the request
// goes on.
func (o *Options) SetPassed(passed func(point string)) { o.passed = passed }
