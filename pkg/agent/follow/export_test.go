package follow

import "context"

// Begin is the first part of Run. It returns the rest.
func (f *File) Begin() (run func(context.Context) error, err error) {
	watcher, err := f.begin()
	return func(ctx context.Context) error { return f.follow(ctx, watcher) }, err
}
