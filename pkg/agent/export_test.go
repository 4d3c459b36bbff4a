package agent

// AddFailpoint adds a function to attach.Options.Failpoint.
func (o *Options) AddFailpoint(failpoint func(point string)) {
	earlier := o.failpoint
	o.failpoint = func(point string) {
		if earlier != nil {
			earlier(point)
		}
		failpoint(point)
	}
}
