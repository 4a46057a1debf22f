// Reminders of one conversation in this browser: whether they are possible, turned on or off.
import { Attempt } from '../parts/attempt.svelte'
import type { Participant } from './participant'

const WORKER = '/push.js'
const SCOPE = '/chat/'

export class Reminders {
  isPossible = $state(false)
  isOn = $state(false)
  /** The person has refused notifications of this site. */
  isRefused = $state(false)
  readonly work = new Attempt()

  constructor(readonly participant: Participant) {
    const isInFrame = window.parent !== window // browsers do not ask for permission there
    this.isPossible = !!participant.pushKey && !isInFrame && 'serviceWorker' in navigator && 'PushManager' in window && 'Notification' in window
    if (this.isPossible) void this.#look().catch(() => {}) // without the worker there are none
  }

  /** Remind this browser, after the person has permitted it. */
  turnOn() {
    return this.work.run(async () => {
      this.isRefused = (await Notification.requestPermission()) !== 'granted'
      if (this.isRefused) return
      const registration = await navigator.serviceWorker.register(WORKER, { scope: SCOPE })
      await active(registration)
      const key = { userVisibleOnly: true, applicationServerKey: this.participant.pushKey! }
      await this.participant.subscribe(await registration.pushManager.subscribe(key))
      this.isOn = true
    })
  }

  turnOff() {
    return this.work.run(async () => {
      await this.participant.unsubscribe()
      await (await subscriptionHere())?.unsubscribe()
      this.isOn = false
    })
  }

  /** Send the subscription of this browser again: it may be of an earlier conversation, or have changed. */
  async #look() {
    const subscription = await subscriptionHere()
    if (!subscription) return
    await this.participant.subscribe(subscription)
    this.isOn = true
  }
}

async function subscriptionHere(): Promise<PushSubscription | null> {
  const registration = await navigator.serviceWorker.getRegistration(SCOPE)
  return registration ? registration.pushManager.getSubscription() : null
}

/** Wait until a worker can receive: `ready` waits for one that controls this page, which a new one does not. */
async function active(registration: ServiceWorkerRegistration) {
  const starting = registration.installing ?? registration.waiting
  if (!starting) return
  await new Promise<void>((resolve) => {
    starting.addEventListener('statechange', () => starting.state === 'activated' && resolve())
  })
}
