/** What a page does and waits for: whether it is under way, and why the last one failed. */
export class Attempt {
  isBusy = $state(false)
  error: unknown = $state.raw(null)

  /** Run an action; return whether it succeeded. */
  async run(action: () => Promise<void>): Promise<boolean> {
    this.isBusy = true
    this.error = null
    try {
      await action()
      return true
    } catch (problem) {
      this.error = problem
      return false
    } finally {
      this.isBusy = false
    }
  }
}
