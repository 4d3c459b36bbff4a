package agent

// SetFailpoint sets attach.Options.Failpoint.
func (o *Options) SetFailpoint(failpoint func(point string)) { o.failpoint = failpoint }
